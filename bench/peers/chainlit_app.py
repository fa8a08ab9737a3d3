"""The chat of Chainlit's streaming guide, made careful: it closes the provider's stream when its task is cancelled.

It keeps nothing, which makes its work smaller than the studio's. `bench.peers.chainlit` runs it in an own environment.
"""

import os

import chainlit
from openai import AsyncOpenAI

client = AsyncOpenAI(base_url=os.environ["PROVIDER_URL"], api_key="none", max_retries=0)


@chainlit.on_message
async def answer(question: chainlit.Message) -> None:
    reply = chainlit.Message(content="")
    messages = [{"role": "user", "content": question.content}]
    stream = await client.chat.completions.create(model="fake-model", messages=messages, stream=True)
    async with stream:
        async for chunk in stream:
            if text := chunk.choices[0].delta.content if chunk.choices else "":
                await reply.stream_token(text)
    await reply.update()
